"""Attacks: what each session reaches, what a hostile envelope comes to, and what may be seen."""
