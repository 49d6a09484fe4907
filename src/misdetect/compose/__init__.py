"""Edits that are described before they are drawn: paste, fade, texture, isolate, cover, move; and where to put them."""
