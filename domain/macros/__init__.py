"""Parse the common syntax of submit descriptions and configurations: lines, macros, functions, conditions."""
