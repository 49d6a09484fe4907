"""What both data sets are drawn with: a canvas that knows owners, a camera, shapes, pens, textures and dice."""
