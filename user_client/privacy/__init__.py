"""What a party can say about its risk before anything is sent, and what lowers it. Numpy only."""
