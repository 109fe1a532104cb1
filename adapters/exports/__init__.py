"""The formats of `poolbook export`, and the import of an exported log."""
