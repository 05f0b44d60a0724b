"""The search: the Optuna study, its samplers, verification and attribution."""
