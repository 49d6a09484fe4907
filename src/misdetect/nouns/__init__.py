"""The nouns: what a detector, an image, an answer and a setting are, before anything is done with them."""
