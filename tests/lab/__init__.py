"""Two hosts on one machine, made of namespaces: real sshd, real dockerd, real cables that can be pulled."""
