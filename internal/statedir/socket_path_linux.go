package statedir

// MaxSocketPath is the size of sockaddr_un's path without its zero (unix(7)).
const MaxSocketPath = 107
