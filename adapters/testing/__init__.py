"""The test kit `poolbook.testing`: scenarios as tests (`report`, `plugin`), and hypothesis strategies and machines."""
