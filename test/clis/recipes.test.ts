import { expect, test } from 'vitest';
import { drive } from './drive.ts';
test.concurrent.each([
['claude','answer'],['claude','tool'],['claude',401],['claude',500],['claude','cut'],['claude','cut_once'],['claude','empty'],['claude','hang'],['claude',429],
['codex','answer'],['codex','tool'],['codex',401],['codex',500],['codex','cut'],['codex','cut_once'],['codex','empty'],['codex','hang'],['codex',429],
] as const)('%s %s', async (name, mode) => {
  const t=Date.now();
  const d = await drive(name, { mode, timeoutSecs: mode==='hang'?5:120, endpoint: (url)=> name==='claude'?{env:{ANTHROPIC_BASE_URL:url}}:{argv:[`--config=openai_base_url=${url}/v1`]} });
  const {result:{value,ok,reason,message,stats,warnings,reported_error, ...rest}, calls, stored, ...more}=d as any;
  console.log('ROW',name,mode,(Date.now()-t)/1000,JSON.stringify({value,ok,reason,message,model:stats?.model,usage:stats?.usage,cost:stats?.cost_usd,turns:stats?.num_turns,warnings,reported_error,retry:rest.retry,stderr:rest.stderr?.tail?.slice(-200), calls: calls.length, user: calls[0]?.users.at(-1).slice(-70), sys: calls[0]?.system.slice(-60), tools: calls[0]?.tools.map((t:any)=>t.name).join(),toolRan:more.toolRan,running:more.running,scratch:more.scratch}));
}, 150000);
