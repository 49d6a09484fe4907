"""A room per study, and what all studies share: the contract, how one is run, what a run says, the ledger."""
