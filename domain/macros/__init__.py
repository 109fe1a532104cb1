"""The language that submit descriptions and configurations have in common: lines, macros, functions, conditions."""

if __name__ != "poolbook.domain.macros":
    raise ImportError(f"import this folder as poolbook.domain.macros, not as {__name__}")
