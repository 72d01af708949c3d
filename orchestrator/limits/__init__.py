"""What all processes of an experiment share and none may pass: rates, money, hours. State under `<store>/limits/`."""
