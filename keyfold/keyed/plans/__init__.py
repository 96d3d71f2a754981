"""What each batch reads, and how event time moves."""
