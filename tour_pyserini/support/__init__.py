"""Files, Java, devices, hardware, costs: services that know nothing of retrieval."""
