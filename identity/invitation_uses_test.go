package identity

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

// An invitation for three keys is redeemed by three, each of which may repeat it, and by no
// fourth. A redemption that fails takes no place.
func TestInvitationForSeveralKeys(t *testing.T) {
	var v Invitations
	admit := func(string) error { return nil }
	token, opened, err := v.Issue(0, "build", 3)
	if err != nil || opened.Uses != 3 {
		t.Fatalf("%+v, %v", opened, err)
	}
	full := errors.New("disk full")
	for range 4 {
		if err := v.Redeem(token, testID(9), func(string) error { return full }); err != full {
			t.Fatal(err)
		}
	}
	for range 2 {
		for i := range 3 {
			var named string
			if err := v.Redeem(token, testID(i+1), func(name string) error { named = name; return nil }); err != nil || named != "build" {
				t.Errorf("key %d: named %q, %v", i, named, err)
			}
		}
	}
	if err := v.Redeem(token, testID(9), admit); err != ErrInvitationUsed {
		t.Errorf("a fourth key: %v", err)
	}
	want := []ID{testID(1), testID(2), testID(3)}
	if got := v.List(); len(got) != 1 || !slices.Equal(got[0].UsedBy, want) {
		t.Errorf("listed %+v", got)
	}
	// What is listed stays as it was.
	before := v.List()[0]
	before.UsedBy[0] = testID(9)
	if got := v.List(); !slices.Equal(got[0].UsedBy, want) {
		t.Errorf("a caller has changed it to %+v", got)
	}
	if n := v.Revoke(func(o InvitationInfo) bool { return slices.Contains(o.UsedBy, testID(2)) }); n != 1 || v.Redeem(token, testID(1), admit) != ErrNoInvitation {
		t.Errorf("%d ended because the second had used it", n)
	}
	for _, uses := range []int{-1, 0, MaxInvitationUses + 1} {
		if _, _, err := v.Issue(0, "", uses); err == nil {
			t.Errorf("%d uses are accepted", uses)
		}
	}
}

// Of all that come at once, as many win as the invitation is for, and they get a name each.
func TestAsManyJoinersWinAsItIsFor(t *testing.T) {
	var v Invitations
	store := NewMemoryTrustStore()
	token, _, err := v.Issue(0, "build", 3)
	if err != nil {
		t.Fatal(err)
	}
	results := make([]error, 12)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			results[i] = v.Redeem(token, testID(i), func(name string) error {
				_, err := store.TrustJoined(Peer{ID: testID(i), Name: name}, "laptop")
				return err
			})
		})
	}
	wg.Wait()
	for i, err := range results {
		if _, trusted := store.FindPeer(testID(i)); trusted != (err == nil) || err != nil && err != ErrInvitationUsed {
			t.Errorf("joiner %d: trusted %v, %v", i, trusted, err)
		}
	}
	var names []string
	for _, p := range store.Peers() {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"build", "build-2", "build-3"}) {
		t.Errorf("joined as %q", names)
	}
}
