"""The framer protocol as a small explicit-state model, explored to its end.

- `state`: what one matter's world is made of;
- `rules`: every rule of the protocol, each with a switch;
- `world_steps`, `gate_steps`, `upkeep_steps`: what each actor may do next;
- `invariants`: what must never be, and what is a good end;
- `search`: breadth first, so that what is found is shown by a shortest trace;
- `broken`: each rule switched off alone, and what then goes wrong;
- `replay`, `real_run`: a trace's steps on the real code, with every rule on.

One step of the model is one transaction of the real code, or one thing that happens outside of it.
Left out, because nothing that follows depends on it: the parse and environment gates (a forged
envelope stands for whatever is refused), trace contexts, how long anything takes (a lease runs out
whenever it may), and other matters (no statement of the protocol touches two).
"""
