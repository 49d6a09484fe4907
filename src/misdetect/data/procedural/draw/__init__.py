"""What both data sets are drawn with: a canvas that knows owners, a camera, textures, dice, the last finish."""
