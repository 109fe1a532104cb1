"""The library: `Pool`, `Log` and their counterparts for asyncio."""
