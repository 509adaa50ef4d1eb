"""Random policy windows against the flow of SPEC: `python -m tests.policy_fuzz --programs 1000`."""
