"""The 22 parts of a DelftBikes bicycle: their names, how each is drawn, and in which order.

Handles, hand brakes and pedals are *front* on the viewer's side and *back* behind the bicycle; all else is front and
back of the bicycle itself.
"""

from collections.abc import Callable

from misdetect.data.procedural.bikes import controls as bike_controls
from misdetect.data.procedural.bikes import drive as bike_drive
from misdetect.data.procedural.bikes.frame import Build, View
from misdetect.data.procedural.draw.dice import Dice

PARTS = (
    "back_hand_break", "back_handle", "back_light", "back_mudguard", "back_pedal", "back_reflector", "back_wheel",
    "bell", "chain", "dress_guard", "dynamo", "front_handbreak", "front_handle", "front_light", "front_mudguard",
    "front_pedal", "front_wheel", "gear_case", "kickstand", "lock", "saddle", "steer",
)  # fmt: skip
Draw = Callable[[View, Build, Dice, bool], None]

DRAW: dict[str, Draw] = {
    "back_hand_break": bike_controls.back_hand_break,
    "back_handle": bike_controls.back_handle,
    "back_light": bike_controls.back_light,
    "back_mudguard": bike_drive.back_mudguard,
    "back_pedal": bike_drive.back_pedal,
    "back_reflector": bike_controls.back_reflector,
    "back_wheel": bike_drive.back_wheel,
    "bell": bike_controls.bell,
    "chain": bike_drive.chain,
    "dress_guard": bike_drive.dress_guard,
    "dynamo": bike_controls.dynamo,
    "front_handbreak": bike_controls.front_handbreak,
    "front_handle": bike_controls.front_handle,
    "front_light": bike_controls.front_light,
    "front_mudguard": bike_drive.front_mudguard,
    "front_pedal": bike_drive.front_pedal,
    "front_wheel": bike_drive.front_wheel,
    "gear_case": bike_drive.gear_case,
    "kickstand": bike_drive.kickstand,
    "lock": bike_drive.lock,
    "saddle": bike_controls.saddle,
    "steer": bike_controls.steer,
}
BEHIND = ("back_handle", "back_hand_break", "back_wheel", "front_wheel", "dress_guard", "back_pedal")
"""Drawn before the frame, from far to near."""
BEFORE = (
    "back_mudguard", "front_mudguard", "chain", "gear_case", "back_reflector", "back_light", "kickstand", "lock",
    "dynamo", "front_light", "saddle", "steer", "bell", "front_handbreak", "front_handle", "front_pedal",
)  # fmt: skip
"""Drawn after the frame; the cranks come before the pedals."""
