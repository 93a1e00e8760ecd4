// A small app with CopilotKit, as the documentation shows it: a chat, an action that changes the page, something
// readable, and a list of what the agent asks. What it is to talk to stands in the address.

import { CopilotKit, useCopilotAction, useCopilotReadable } from '@copilotkit/react-core';
import { useAgent, useInterrupt } from '@copilotkit/react-core/v2';
import { CopilotChat } from '@copilotkit/react-ui';
import '@copilotkit/react-ui/styles.css';
import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';

const asked = new URLSearchParams(location.hash.slice(1));
const url = asked.get('url');
const headers = { Authorization: `Bearer ${asked.get('token')}` };
const byInterrupt = asked.get('approvals') === 'interrupt';

function Painting() {
  const [color, setColor] = useState('white');
  const [ran, setRan] = useState(0);
  useCopilotReadable({ description: 'the color of the page', value: color });
  useCopilotAction({
    name: 'setColor',
    description: 'Paints the page in a color',
    parameters: [{ name: 'color', type: 'string', description: 'a CSS color', required: true }],
    handler: async ({ color }) => {
      setColor(color);
      setRan((count) => count + 1);
      return `the page is ${color} now`;
    },
  });
  return <p data-testid="color" style={{ background: color }}>{color} ({ran})</p>;
}

function Asked() {
  const { agent } = useAgent({ agentId: 'default' });
  const [open, setOpen] = useState([]);
  useEffect(() => {
    const close = (requestId) => setOpen((all) => all.filter((one) => one.requestId !== requestId));
    const { unsubscribe } = agent.subscribe({
      onCustomEvent: ({ event }) => {
        if (event.name === 'tool_approval_request') {
          setOpen((all) => [...all.filter((one) => one.requestId !== event.value.requestId), event.value]);
        }
        if (event.name === 'tool_approval_resolved') close(event.value.requestId);
      },
    });
    return unsubscribe;
  }, [agent]);
  const answer = ({ requestId, sessionId }, reply) =>
    fetch(`${url}/api/sessions/${sessionId}/tool-approval`, {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json' },
      body: JSON.stringify({ requestId, ...reply }),
    });
  return open.map((request) => (
    <div key={request.requestId} data-testid="asked">
      <b>{request.toolName ?? request.kind}</b>
      {request.kind === 'question'
        ? request.toolInput.questions.flatMap(({ question, options }) => [
            <span key={question}>{question}</span>,
            ...options.map(({ label }) => (
              <button key={label} onClick={() => answer(request, { answers: { [question]: label } })}>{label}</button>
            )),
          ])
        : <button onClick={() => answer(request, { behavior: 'allow' })}>Allow</button>}
    </div>
  ));
}

function Interrupts() {
  return useInterrupt({
    agentId: 'default',
    renderInChat: false,
    render: ({ interrupt, resolve }) => (
      <div data-testid="interrupt">
        <span>{interrupt?.message ?? interrupt?.reason}</span>
        <button onClick={() => resolve({ approved: true })}>Go on</button>
      </div>
    ),
  });
}

function App() {
  return (
    <CopilotKit
      runtimeUrl={url}
      headers={headers}
      agent="default"
      threadId={asked.get('thread')}
      properties={byInterrupt ? { approvals: 'interrupt' } : {}}
      showDevConsole={false}
    >
      <Painting />
      {byInterrupt ? <Interrupts /> : <Asked />}
      <CopilotChat labels={{ title: 'Portolan', initial: '' }} />
    </CopilotKit>
  );
}

createRoot(document.getElementById('app')).render(<App />);
