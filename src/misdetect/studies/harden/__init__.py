"""harden: train on what was found, guarded, and test again (papers 4 and 5)."""
