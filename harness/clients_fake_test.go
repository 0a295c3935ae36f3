package harness

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
)

// serveClients listens on a unix socket until its standard input ends. By then its child, the
// same program with the path of a socket that is there, is connected too.
func serveClients(path string) {
	if conn, err := dialAccepted(path); err == nil { // the child
		fmt.Println("connected")
		io.Copy(io.Discard, os.Stdin)
		conn.Close()
		return
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			conn.Write([]byte{1})
		}
	}()
	child := exec.Command(os.Args[0], serverRole, path)
	child.Stdin, child.Stdout = os.Stdin, os.Stdout
	child.Run()
	listener.Close()
}

// dialAccepted connects to a server, and waits until that has accepted the connection.
func dialAccepted(path string) (net.Conn, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
