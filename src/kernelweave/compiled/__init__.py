"""The engine room: numba, plain arrays in, plain arrays out. Imported only when a fit needs it."""
