"""What rooms and pages draw with: figures in files, charts as values, scenes, tables; nothing here knows a study."""
