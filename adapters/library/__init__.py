"""The library: `Pool`, `Log` and their counterparts for asyncio."""

if __name__ != "poolbook.adapters.library":
    raise ImportError(f"import this folder as poolbook.adapters.library, not as {__name__}")
