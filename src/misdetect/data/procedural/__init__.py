"""How the embedded data sets are drawn: a canvas that knows which object owns each pixel, a camera, and the objects.

Objects are data: ``draw.shapes`` says how the ``.shapes`` files are read, once. Nothing keeps state between images;
``misdetect.data.rooms`` and ``misdetect.data.bikes`` are the doors to it.
"""
