"""What a party can say about its risk before anything is sent. Numpy only."""
