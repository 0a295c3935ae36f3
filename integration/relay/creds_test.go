package relay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/relay"
)

// account is one of a server in operator mode: its users log in with credentials that its key has signed.
type account struct {
	operator, key nkeys.KeyPair
	claims        *jwt.AccountClaims
}

func newKeyPair(t *testing.T, create func() (nkeys.KeyPair, error)) (pair nkeys.KeyPair, public string) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return pair, public
}

// encode signs claims.
func encode(t *testing.T, claims jwt.Claims, by nkeys.KeyPair) string {
	t.Helper()
	text, err := claims.Encode(by)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// startOperated starts a server in operator mode that has one account.
func startOperated(t *testing.T) (*server.Server, *account) {
	t.Helper()
	operator, operatorKey := newKeyPair(t, nkeys.CreateOperator)
	key, public := newKeyPair(t, nkeys.CreateAccount)
	a := &account{operator: operator, key: key, claims: jwt.NewAccountClaims(public)}
	text := encode(t, a.claims, operator)
	s := startServer(t, fmt.Sprintf("listen: 127.0.0.1:-1\noperator: %s\nresolver: MEMORY\nresolver_preload: { %s: %s }\n", encode(t, jwt.NewOperatorClaims(operatorKey), operator), public, text))
	return s, a
}

// newUser returns the credentials of a new user, for a .creds file, and the user's key. They expire after
// life; 0: never.
func (a *account) newUser(t *testing.T, life time.Duration) (creds []byte, public string) {
	t.Helper()
	pair, public := newKeyPair(t, nkeys.CreateUser)
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(public)
	if life > 0 {
		claims.Expires = time.Now().Add(life).Unix()
	}
	if creds, err = jwt.FormatUserConfig(encode(t, claims, a.key), seed); err != nil {
		t.Fatal(err)
	}
	return creds, public
}

// revoke has the server refuse a user from now on, also one that is connected.
func (a *account) revoke(t *testing.T, s *server.Server, user string) {
	t.Helper()
	a.claims.RevokeAt(user, time.Now().Add(time.Second)) // JWTs of this second too
	known, err := s.LookupAccount(a.claims.Subject)
	if err != nil {
		t.Fatal(err)
	}
	text := encode(t, a.claims, a.operator)
	signed, err := jwt.DecodeAccountClaims(text)
	if err != nil {
		t.Fatal(err)
	}
	s.UpdateAccountClaims(known, signed)
}

// listUsers returns the keys of the users that are connected.
func listUsers(t *testing.T, s *server.Server) string {
	t.Helper()
	all, err := s.Connz(&server.ConnzOptions{Username: true})
	if err != nil {
		t.Fatal(err)
	}
	var users []string
	for _, c := range all.Conns {
		users = append(users, c.AuthorizedUser)
	}
	return strings.Join(users, " ")
}

// A .creds file is a login at a server in operator mode. It is read at each connection: when its user is
// revoked or its time is over, the link is refused and says so, until the file has other credentials.
func TestCredentialsFile(t *testing.T) {
	s, of := startOperated(t)
	file := filepath.Join(t.TempDir(), "hub.creds")
	put := func(creds []byte) { // in place, as whoever copies a file over another does
		if err := os.WriteFile(file, creds, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, firstKey := of.newUser(t, 0)
	second, secondKey := of.newUser(t, 0)
	secrets := strings.Fields(string(first) + string(second))
	put(first)
	a, b := newDaemon(t, urlOf(s)), newDaemon(t, urlOf(s))
	a.Credentials.File, b.Credentials.File = file, filepath.Join(t.TempDir(), "b.creds")
	other, _ := of.newUser(t, 0)
	if err := os.WriteFile(b.Credentials.File, other, 0o600); err != nil {
		t.Fatal(err)
	}
	la, lb := start(t, a.Config), start(t, b.Config)
	la.awaitConnected(t)
	lb.awaitConnected(t)
	exchange(t, la, lb)
	la.awaitNobody(t, identity.ID{1})
	isIn := func(key string) {
		t.Helper()
		if users := listUsers(t, s); !strings.Contains(users, key) {
			t.Errorf("the users %s are connected, without %s", users, key)
		}
	}
	isIn(firstKey)

	awaitRefusal := func(words ...string) (found string) {
		t.Helper()
		since := time.Now()
		state := la.await(t, words[0], func(s relay.State) bool {
			i := slices.IndexFunc(words, func(w string) bool { return s.LastError != nil && strings.Contains(s.LastError.Error(), w) })
			if i < 0 || s.LastErrorAt.Before(since) || s.Standing != relay.Connecting || !errors.Is(s.LastError, relay.ErrRefused) {
				return false
			}
			found = words[i]
			return true
		})
		for _, secret := range secrets {
			if text := fmt.Sprintf("%+v", state); len(secret) > 50 && strings.Contains(text, secret) { // the JWT or the seed
				t.Errorf("the state has a secret: %s", text)
			}
		}
		return found
	}
	const expired = "the credentials have expired: get new ones"
	refused := "the server refuses credentials " + file + ": they are wrong, or were changed there: put new ones into the file"
	of.revoke(t, s, firstKey)
	awaitRefusal(refused)
	for life := 3 * time.Second; ; life *= 2 { // until one lives long enough to connect here
		brief, _ := of.newUser(t, life)
		put(brief)
		if awaitRefusal(expired, refused) == expired {
			break
		}
	}
	put(second)
	la.awaitConnected(t)
	isIn(secondKey)
	exchange(t, la, lb)
}
