"""What is said: errors as sentences, text that is safe to print, gates."""
