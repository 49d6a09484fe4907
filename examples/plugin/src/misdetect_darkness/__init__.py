"""A plugin for misdetect: a study of darkness, a detector of bright spots, and boxes in a CSV file."""
