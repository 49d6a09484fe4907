"""The same over HTTP, live: ``misdetect serve`` with its gallery, filters, notes and the playground."""
