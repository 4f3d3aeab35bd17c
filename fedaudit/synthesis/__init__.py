"""Examples that a client makes up with the model it has, and what is thrown away of them."""
