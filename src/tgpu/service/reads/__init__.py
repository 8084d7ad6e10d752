"""What others may read of the state: lookups, values, and the façade that answers with them."""
