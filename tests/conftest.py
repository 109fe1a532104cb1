"""For all tests: no example of a property is judged by the clock, since the machines that run them are shared; and a
property that does not say how many examples it wants gets 60, so that the suite stays fast. `make soak` draws more."""

from hypothesis import settings

settings.register_profile("poolbook", deadline=None, max_examples=60)
settings.load_profile("poolbook")
