"""Read the language common to submit descriptions and configurations: lines, macros, functions, conditions."""

if __name__ != "poolbook.domain.macros":
    raise ImportError(f"import this folder as poolbook.domain.macros, not as {__name__}")
