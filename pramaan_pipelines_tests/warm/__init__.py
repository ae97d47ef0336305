"""Run workers forked from a warm process, attacked."""
