package relay

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// Credentials are how a link authenticates to the server. The zero value means the
// nkey of [Config.Key]. It prints without its secrets.
type Credentials struct {
	File     string // a .creds file (JWT and seed), which is read at each connection
	Token    string
	User     string
	Password string
}

// String says which kind of credentials these are.
func (c Credentials) String() string {
	switch {
	case c.File != "":
		return "credentials " + c.File
	case c.Token != "":
		return "a token"
	case c.User != "":
		return "user " + c.User
	}
	return "the derived nkey"
}

// Format prints String for every verb of fmt.
func (c Credentials) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// LogValue keeps the secrets out of logs.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// check reports whether more than one kind is set, or half of one.
func (c Credentials) check() error {
	kindsSet := 0
	for _, set := range []bool{c.File != "", c.Token != "", c.User != "" || c.Password != ""} {
		if set {
			kindsSet++
		}
	}
	switch {
	case kindsSet > 1:
		return kinds.Errorf(kinds.Invalid, "credentials: more than one of file, token and user: write one of them")
	case (c.User == "") != (c.Password == ""):
		return kinds.Errorf(kinds.Invalid, "credentials: user and password belong together: write both")
	}
	return nil
}

// PublicKey returns the public half of the nkey that is made of secret, as a NATS server's
// configuration has it: U and 55 characters.
func PublicKey(secret [32]byte) (string, error) {
	pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, secret[:])
	if err != nil {
		return "", ownwords.Errorf("relay nkey: %w", err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

// authentication is how the link authenticates, with its secrets behind closures, so that no
// verb of fmt prints them.
type authentication struct {
	publicKey string // of the derived nkey, also when it is not used
	what      string
	file      string // of credentials; "": none
	isNkey    bool   // the derived nkey is used
	apply     func(*nats.Options) error
}

// newAuthentication checks the credentials. secret is that of the derived nkey.
func newAuthentication(c Credentials, secret [32]byte) (authentication, error) {
	if err := c.check(); err != nil {
		return authentication{}, err
	}
	if secret == [32]byte{} {
		return authentication{}, kinds.Errorf(kinds.Invalid, "key: missing: expected the identity's secret of the label %q", KeyLabel)
	}
	public, err := PublicKey(secret)
	if err != nil {
		return authentication{}, err
	}
	a := authentication{publicKey: public, what: c.String()}
	switch {
	case c.File != "":
		if _, err := os.Stat(c.File); err != nil {
			return authentication{}, kinds.Errorf(kinds.Invalid, "credentials: %s: name a .creds file that acpd may read", err)
		}
		a.file = c.File
		a.apply = func(o *nats.Options) error {
			if err := checkSeedAndJWT(c.File); err != nil {
				return err
			}
			return nats.UserCredentials(c.File)(o)
		}
	case c.Token != "":
		a.apply = nats.Token(c.Token)
	case c.User != "":
		a.apply = nats.UserInfo(c.User, c.Password)
	default:
		a.what, a.isNkey = "nkey "+public, true
		private := ed25519.NewKeyFromSeed(secret[:])
		sign := func(nonce []byte) ([]byte, error) { return ed25519.Sign(private, nonce), nil }
		a.apply = nats.Nkey(public, sign)
	}
	return a, nil
}

// CheckCredentials returns an error, with a remedy, if a file has no NATS credentials.
func CheckCredentials(file string) error {
	err := checkSeedAndJWT(file)
	if errors.Is(err, errNoCredentials) {
		err = ownwords.Errorf("%w: %s", err, newCredentials)
	}
	return err
}

const newCredentials = "get a .creds file from whoever runs the server; a token goes into --token-file, or token in config.yaml"

var errNoCredentials = ownwords.New("the file has no NATS credentials")

// checkSeedAndJWT returns an error if a file of credentials lacks one of them. Without a seed, nats.go returns an error
// only once the server is there. Without a JWT, nats.go sends the seed instead.
func checkSeedAndJWT(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	defer clear(text)
	pair, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return ownwords.Errorf("credentials: %s: %w", file, errNoCredentials)
	}
	pair.Wipe()
	if jwt, err := nkeys.ParseDecoratedJWT(text); err != nil || strings.Count(jwt, ".") != 2 {
		return ownwords.Errorf("credentials: %s: %w", file, errNoCredentials)
	}
	return nil
}

// findLoginRemedy returns what to do if the server refuses the login.
func (l *Link) findLoginRemedy() string {
	switch {
	case l.auth.isNkey:
		return "have " + l.auth.publicKey + " put into the users of its configuration; or, if it wants a token, user or credentials, " + l.replaceLogin("")
	case l.auth.file != "":
		return "they are wrong, or were changed there: put new ones into the file"
	}
	return "wrong, or changed there: " + l.replaceLogin("get the new one, and ")
}

// replaceLogin says how the owner replaces the login. get is how to get another one.
func (l *Link) replaceLogin(get string) string {
	if l.config.AdviseLogin != nil {
		return l.config.AdviseLogin(get)
	}
	return get + "acpctl relay add with it"
}
