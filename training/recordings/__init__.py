"""What other implementations make of tiny models: recordings that tests compare with."""
