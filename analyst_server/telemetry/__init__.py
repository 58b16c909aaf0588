"""What programs that watch a running analyst are told: counts, ages and times, never a party's name."""
