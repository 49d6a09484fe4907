"""Bicycles: frame, drive, controls, parts and what stands around them."""
