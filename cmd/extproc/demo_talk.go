package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
)

// talk is one conversation of the demo.
type talk struct {
	session  string
	messages []chatMessage
	turns    []turn
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// turn is what one request of a conversation got.
type turn struct {
	listener string // a or b
	worker   string
	reason   string
	cached   int // blocks of the prompt that the worker had
	prompt   int // blocks of the prompt
}

// instructions are what conversations begin with, by turns, as an application's
// system prompt is.
var instructions = [...]string{
	"You are the editor of a small publishing house by the sea. You answer in one short paragraph, you never use the word nice, and you praise only what deserves it. When a sentence is too long you say where to cut it, and you always name the page that you would read aloud first.",
	"You are an old harbour pilot who has retired and now tells stories to visitors. You speak slowly and plainly, you give the names of ships and of winds as they were, and when you are asked about the weather you answer with what the gulls did on the morning of the day before.",
	"You are a teacher of geography for children of ten years. You explain every hard word with an easier one, you draw a map in words before you describe a place, and at the end of each answer you ask one question that the children can answer with what they have just heard from you.",
}

// questions are what everybody asks, one a turn.
var questions = [demoTurns]string{
	"Good morning. I am writing a small book about harbours, and I would like your help with it. Please suggest a first sentence.",
	"That is a fine start. Now describe how a ship finds its berth when the fog comes in from the sea.",
	"And what does the harbour master say when the same ship comes back the next evening?",
	"Please end the chapter with the sound of the mooring lines.",
}

// playConversations drives all conversations, three at a time, each turn through
// the other listener than the one before. moved says that a turn left its
// conversation's worker; err that a request failed.
func playConversations(ctx context.Context, out io.Writer, listeners []string) (moved, err error) {
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	fmt.Fprintf(out, "\n%-10s %-8s %-10s %-10s %s\n", "session", "listener", "worker", "why", "cached blocks of prompt")
	talks := make([]*talk, demoConversations)
	lines := make(chan string)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(3)
	go func() {
		for i := range talks {
			talks[i] = &talk{session: fmt.Sprintf("demo-%02d", i+1), messages: []chatMessage{{"system", instructions[i%len(instructions)]}}}
			g.Go(func() error { return talks[i].play(ctx, client, listeners, lines) })
		}
		err = g.Wait()
		close(lines)
	}()
	for line := range lines {
		fmt.Fprint(out, line)
	}
	if err != nil {
		return nil, err
	}
	return printTalks(out, talks), nil
}

func (t *talk) play(ctx context.Context, client *http.Client, listeners []string, lines chan<- string) error {
	for n, question := range questions {
		i := n % len(listeners)
		if err := t.ask(ctx, client, listeners[i], question); err != nil {
			return fmt.Errorf("session %s, turn %d: %w", t.session, n+1, err)
		}
		last := &t.turns[n]
		last.listener = demoListeners()[i]
		lines <- fmt.Sprintf("%-10s %-8s %-10s %-10s %d of %d\n", t.session, last.listener, last.worker, last.reason, last.cached, last.prompt)
	}
	return nil
}

// ask sends the conversation so far and one more question.
func (t *talk) ask(ctx context.Context, client *http.Client, address, question string) error {
	t.messages = append(t.messages, chatMessage{"user", t.session + ": " + question})
	body, err := json.Marshal(map[string]any{"model": demoModel, "messages": t.messages})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-Id", t.session)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return t.note(resp.Header, answer)
}

// note keeps the answer as the next message, and what it says of the cache.
func (t *talk) note(header http.Header, answer []byte) error {
	var completion struct {
		Choices []struct{ Message chatMessage }
		Usage   struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal(answer, &completion); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if len(completion.Choices) == 0 {
		return errors.New("answer without a choice")
	}
	t.messages = append(t.messages, completion.Choices[0].Message)
	t.turns = append(t.turns, turn{
		worker: header.Get("X-Sim-Worker"),
		reason: header.Get("X-Mooring-Reason"),
		cached: completion.Usage.Details.Cached / demoBlockSize,
		prompt: (completion.Usage.Prompt + demoBlockSize - 1) / demoBlockSize,
	})
	return nil
}

// printTalks sums up each conversation and returns an error if one moved.
func printTalks(out io.Writer, talks []*talk) error {
	moved, warm := 0, 0
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nsession\tworker\tlisteners\tcached blocks by turn\tkept its worker")
	for _, t := range talks {
		var workers, listeners, cached []string
		for _, turn := range t.turns {
			if len(workers) == 0 || workers[len(workers)-1] != turn.worker {
				workers = append(workers, turn.worker)
			}
			listeners = append(listeners, turn.listener)
			cached = append(cached, fmt.Sprint(turn.cached))
		}
		if t.turns[0].cached > 0 {
			warm++
		}
		kept := "yes"
		if len(workers) > 1 {
			kept = "NO"
			moved++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.session, strings.Join(workers, " -> "), strings.Join(listeners, " "), strings.Join(cached, " "), kept)
	}
	w.Flush()
	if moved > 0 {
		return fmt.Errorf("%d of %d conversations left their worker", moved, len(talks))
	}
	fmt.Fprintf(out, "all %d turns of %d conversations stayed on their worker; %d opened where their instruction was cached\n", len(talks)*demoTurns, len(talks), warm)
	return nil
}
