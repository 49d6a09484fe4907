"""Rooms and landscapes: layout, themes, furniture, plants, animals and things."""
