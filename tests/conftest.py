"""For all tests: no example of a property is judged by the clock, since the machines that run them are shared."""

from hypothesis import settings

settings.register_profile("poolbook", deadline=None)
settings.load_profile("poolbook")
