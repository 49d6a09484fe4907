"""Any HTTP endpoint: the detector, the formats it may speak, and the transport with retries and a budget."""
