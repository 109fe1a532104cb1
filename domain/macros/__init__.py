"""Read the language common to submit descriptions and configurations: lines, macros, functions, conditions."""
