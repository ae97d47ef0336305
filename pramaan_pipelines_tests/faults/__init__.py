"""What the pipeline does when what it stands on fails or dies; docs/faults.md is made from here."""
