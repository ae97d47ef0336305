"""What a person presses: redrive, dead letters, rebuild, prune, doctor; as jobs and as commands."""
