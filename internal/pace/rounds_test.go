package pace

import "testing"

func TestRounds(t *testing.T) {
	var r Rounds
	r.ComeRound() // nobody waits
	a, b := r.Next(), r.Next()
	select {
	case <-a:
		t.Error("a round is over before the loop has come round")
	default:
	}
	r.ComeRound()
	<-a
	<-b
	select {
	case <-r.Next():
		t.Error("a round counts twice")
	default:
	}
}
