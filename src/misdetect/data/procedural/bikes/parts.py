"""The 22 parts of a DelftBikes bicycle: their names, and in which order they are drawn.

Handles, hand brakes and pedals are *front* on the viewer's side and *back* behind the bicycle; all else is front and
back of the bicycle itself.
"""

PARTS = (
    "back_hand_break", "back_handle", "back_light", "back_mudguard", "back_pedal", "back_reflector", "back_wheel",
    "bell", "chain", "dress_guard", "dynamo", "front_handbreak", "front_handle", "front_light", "front_mudguard",
    "front_pedal", "front_wheel", "gear_case", "kickstand", "lock", "saddle", "steer",
)  # fmt: skip
BEHIND = ("back_handle", "back_hand_break", "back_wheel", "front_wheel", "dress_guard", "back_pedal")
"""Drawn before the frame, from far to near."""
BEFORE = (
    "back_mudguard", "front_mudguard", "chain", "gear_case", "back_reflector", "back_light", "kickstand", "lock",
    "dynamo", "front_light", "saddle", "steer", "bell", "front_handbreak", "front_handle", "front_pedal",
)  # fmt: skip
"""Drawn after the frame; the cranks come before the pedals."""
