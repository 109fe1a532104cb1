"""How each kind of event changes the state, by topics; ``evolve`` puts them together."""
