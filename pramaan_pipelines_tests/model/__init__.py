"""The framer protocol as a small explicit-state model, explored to its end.

- `state`: what one matter's world is made of;
- `rules`: every rule of the protocol, each with a switch;
- `world_steps`, `gate_steps`, `upkeep_steps`: what each actor may do next;
- `invariants`: what must never be, and what is a good end;
- `search`: breadth first, so that what is found is shown by a shortest trace;
- `broken`: each rule switched off alone, and what then goes wrong;
- `replay`: a trace's steps on the real code, with every rule on.

One step of the model is one transaction of the real code, or one thing that happens outside of it.
"""
